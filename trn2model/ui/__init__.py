"""The dashboard: what it shows and how it looks; only this package imports streamlit, plotly and pandas."""
