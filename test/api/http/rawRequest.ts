import { connect } from "node:net";

/** Sends raw bytes and returns everything received until the server closes the connection. */
export const rawRequest = (url: string, bytes: string | Buffer): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port) });
    let received = "";
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => {
      received += text;
    });
    socket.on("close", () => resolve(received));
    socket.on("error", reject);
    socket.write(bytes);
  });
