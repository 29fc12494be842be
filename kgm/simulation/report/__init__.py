"""What a simulation predicts: the prediction as values (`prediction`), and what limits it in words (`caveats`)."""
