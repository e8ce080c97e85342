"""The small HTTP server that receives callbacks."""
