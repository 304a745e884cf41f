"""Entry of the dashboard: ``streamlit run dashboard.py``."""

from trn2model.ui import app

app.run()
