"""Charts as pure functions from plain data to a Plotly figure with its alt text and table; no streamlit here."""
