import type { NativeConnectionOptions } from "@temporalio/worker";
import { findTemporalProxy } from "../runtime/temporalClient.ts";

/** Returns the options of a worker's connection, which does not read the environment as the client's does. */
export const readTemporalProxy = (
  address: string | undefined,
): Pick<NativeConnectionOptions, "proxy"> => {
  const proxy = findTemporalProxy(address);
  if (proxy === null) {
    return {};
  }
  const { host, port, username, password } = proxy;
  return {
    proxy: {
      type: "http-connect",
      targetHost: port === "" ? `${host}:80` : host,
      ...(username === ""
        ? {}
        : {
            basicAuth: {
              username: decodeURIComponent(username),
              password: decodeURIComponent(password),
            },
          }),
    },
  };
};
