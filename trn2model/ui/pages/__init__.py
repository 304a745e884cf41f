"""What each page says: plain data, built without streamlit."""
