import type { ServerResponse } from "node:http";

/**
 * Ends a response that is not complete. Its connection is reset: to a client of HTTP/1.0, such as nginx by default, a
 * connection that is closed is the end of a complete response.
 */
export const breakResponse = (response: ServerResponse): void => {
  // A response behind another one of its connection has no socket yet, and is for HTTP/1.1.
  response.socket?.resetAndDestroy();
  response.destroy();
};
