// Pictures that become players on the site.
exports.players = (name, picture) => picture;
