"""The page and its assets: plain HTML, CSS and modules, no build step, no network."""
