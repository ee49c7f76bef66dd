import type { RequestListener } from "node:http";
import type { Registry } from "prom-client";

/**
 * Serves `/metrics` in the Prometheus text format.
 * @param readMore returns further metrics of this process in the same format
 */
export const serveMetrics =
  (
    registry: Registry,
    readMore: () => Promise<string> = () => Promise.resolve(""),
  ): RequestListener =>
  (request, response) => {
    if (request.url !== "/metrics") {
      response
        .writeHead(404, { "Content-Type": "text/plain" })
        .end("not found; the metrics are at /metrics\n");
      return;
    }
    Promise.all([registry.metrics(), readMore()]).then(
      (texts) =>
        response.writeHead(200, { "Content-Type": registry.contentType }).end(texts.join("\n")),
      () => response.writeHead(500).end(),
    );
  };
