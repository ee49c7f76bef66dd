/** Returns the URL of a path on this service; other URLs, and the empty one, stay as they are. */
export const absoluteUrl = (url: string, baseUrl: string): string =>
  url.startsWith("/") ? `${baseUrl}${url}` : url;
