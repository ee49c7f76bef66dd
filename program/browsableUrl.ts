/** Returns a URL that a browser can open if the server listens on every interface (`0.0.0.0` or `::`). */
export const browsableUrl = (url: string): string =>
  url.replace(/^http:\/\/(?:0\.0\.0\.0|\[?::\]?)(?=:\d+$)/u, "http://localhost");
