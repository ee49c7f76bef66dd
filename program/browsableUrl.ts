/** The address to show: that of all interfaces is none that a browser could open. */
export const browsableUrl = (address: string): string =>
  address.replace(/^http:\/\/(?:0\.0\.0\.0|::|\[::\])(?=:\d+$)/u, "http://localhost");
