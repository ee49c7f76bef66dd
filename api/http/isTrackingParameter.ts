/*
 * Query parameters that browsers, libraries, mail programs and advertising networks append to URLs. No endpoint uses their
 * names.
 */

const NAMES: ReadonlySet<string> = new Set([
  // Cache-busting: jQuery and Ext JS.
  "_",
  "_dc",
  // Click identifiers and cross-domain links.
  "_ga",
  "_gl",
  "dclid",
  "fbclid",
  "gad_source",
  "gbraid",
  "gclid",
  "gclsrc",
  "igshid",
  "li_fat_id",
  "mc_cid",
  "mc_eid",
  "msclkid",
  "ttclid",
  "twclid",
  "wbraid",
  "yclid",
  // W3C Trace Context, where headers cannot be set.
  "traceparent",
  "tracestate",
]);

/** Returns whether a query parameter is there for tracing or cache-busting only, so that every endpoint ignores it. */
export const isTrackingParameter = (name: string): boolean =>
  NAMES.has(name) || name.startsWith("utm_");
