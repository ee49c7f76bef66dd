import { once } from "node:events";
import { createServer } from "node:http";
import { reportReady } from "../runtime/readyMessage.ts";

/*
 * A client's server for webhooks: it responds at once, and never to requests whose path begins with /silent.
 */

const server = createServer((request, response) => {
  request.resume().on("end", () => {
    if (request.url?.startsWith("/silent") !== true) {
      response.writeHead(204).end();
    }
  });
});
server.listen({ host: "127.0.0.1", port: 0, backlog: 4096 });
await once(server, "listening");
const address = server.address();
const port = typeof address === "object" ? (address?.port ?? 0) : 0;
reportReady({ standalone: `http://127.0.0.1:${port}` });
// The benchmark has ended.
process.once("disconnect", () => process.exit());
