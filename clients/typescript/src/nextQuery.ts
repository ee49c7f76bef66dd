import type { Reply } from "./createTransport.ts";

/**
 * Returns the query of the next page by the header `Link`, or null on the last page. Only the query is used: the key is not sent
 * to another host, whatever the link says.
 */
export const nextQuery = ({ headers }: Reply): object | null => {
  const { url } = /<(?<url>[^>]*)>;\s*rel="?next"?/u.exec(headers.get("Link") ?? "")?.groups ?? {};
  return url === undefined
    ? null
    : Object.fromEntries(new URL(url, "http://localhost").searchParams);
};
