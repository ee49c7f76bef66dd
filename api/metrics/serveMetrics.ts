import type { RequestListener } from "node:http";
import type { Registry } from "prom-client";

/** Answers `/metrics` in Prometheus' text form. */
export const serveMetrics =
  (registry: Registry): RequestListener =>
  (request, response) => {
    if (request.url !== "/metrics") {
      response
        .writeHead(404, { "Content-Type": "text/plain" })
        .end("The metrics are at /metrics\n");
      return;
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { "Content-Type": registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  };
