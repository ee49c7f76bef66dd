/*
 * The names of cells: complete installations behind one address, among which a proxy chooses by the cell's name in a key or a
 * path. deploy/haproxy/haproxy.cfg and deploy/caddy/Caddyfile read them in the same forms.
 */

/** Without `_` and `-`, which end it in keys and paths. */
const CELL = "[a-z][a-z0-9]{0,7}";

export const CELL_NAME = new RegExp(`^${CELL}$`, "u");

/** Returns the prefix of a cell's keys, such as `impact_prod_eu1_` or `PROD-eu1-`. The default cell has no name (null). */
export const inKeyPrefix = (prefix: string, cell: string | null): string =>
  cell === null ? prefix : `${prefix}${cell}${prefix.slice(-1)}`;

/** Returns the pattern of a part of public paths, such as `eu1_…`; in the default cell, of the name alone. */
export const inPublicPath = (name: string): RegExp => new RegExp(`^(?:${CELL}_)?${name}$`, "u");
