from foretoken.bench.gpu.run import main

main()
