"""Reports as one self-contained HTML file with tables, tiles and inline SVG charts. Pure."""
