"""From an estimate to what a page says: words, numbers in units, and chart data; no streamlit here."""
