"""What the screens say, as lines and cells of tables: pure, from records."""
