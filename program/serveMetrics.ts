import type { RequestListener } from "node:http";
import type { Registry } from "prom-client";

/**
 * Answers `/metrics` in Prometheus' text form.
 * @param readMore further metrics in the same form, kept by others in this process
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
        .end("The metrics are at /metrics\n");
      return;
    }
    Promise.all([registry.metrics(), readMore()]).then(
      (texts) =>
        response.writeHead(200, { "Content-Type": registry.contentType }).end(texts.join("\n")),
      () => response.writeHead(500).end(),
    );
  };
