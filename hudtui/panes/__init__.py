"""What a screen is made of: tables, documents, terminals, and the rows around them."""
