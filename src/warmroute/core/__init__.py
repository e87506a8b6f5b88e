"""The words everybody shares: identifiers, limits, errors, the fleet, decisions and facts."""
