import dns from "node:dns";
import test from "ava";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, request as openRequest } from "node:http";
import { connect } from "node:net";
import { NativeConnection } from "@temporalio/worker";
import type { ExecutionContext } from "ava";
import { configureOutgoing, findProxy, boundBody } from "../../runtime/outgoing.ts";
import {
  findTemporalProxy,
  openTemporalClient,
  withTemporalDeadline,
} from "../../runtime/temporalClient.ts";
import { createStripeClient } from "../../modules/billing/stripe/createStripeClient.ts";
import { resolveAddresses } from "../../runtime/resolveAddresses.ts";
import { readTemporalProxy } from "../../worker/runWorker.ts";
import { eventually, TEMPORAL_ADDRESS } from "../support/programs.ts";
import { listen } from "../support/server.ts";
import { downloadRecords } from "../../modules/planting/treemapper/downloadRecords.ts";

const VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/** Sets the variables of proxies, and no others. */
const configure = (variables: Readonly<Record<string, string>>): void => {
  for (const name of VARIABLES) {
    delete process.env[name];
    delete process.env[name.toLowerCase()];
  }
  Object.assign(process.env, variables);
  configureOutgoing();
};

test.afterEach.always(() => {
  configure({});
});

/** Starts an HTTP proxy, for which every host is this machine, and returns the targets of its requests. */
const startProxy = async (t: ExecutionContext) => {
  const targets: string[] = [];
  const server = createServer((request, response) => {
    const { port: targetPort, pathname, host } = new URL(request.url ?? "");
    targets.push(host);
    const forwarded = openRequest(
      { host: "127.0.0.1", port: targetPort, path: pathname, agent: false },
      (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(response);
      },
    );
    request.pipe(forwarded);
  });
  server.on("connect", (request, near) => {
    targets.push(request.url ?? "");
    const far = connect(Number(request.url?.split(":").at(-1)), "127.0.0.1", () => {
      near.write("HTTP/1.1 200 Connection established\r\n\r\n");
      far.pipe(near).pipe(far);
    });
    far.on("error", () => near.destroy());
    near.on("error", () => far.destroy());
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}`, targets };
};

const startRefusingProxy = async (t: ExecutionContext): Promise<string> => {
  const server = createServer((_request, response) => {
    response.writeHead(403).end();
  });
  server.on("connect", (_request, socket) => {
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  return `http://127.0.0.1:${await listen(t, server)}`;
};

/** Returns the port of a company. */
const startCompany = (t: ExecutionContext): Promise<number> =>
  listen(
    t,
    createServer((request, response) => {
      request.resume();
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ id: "cus_1" }));
    }),
  );

const callStripe = (apiBase: string) =>
  createStripeClient({ secretKey: "sk_test_key", apiBase }).stripe.customers.retrieve("cus_1");

const describeNamespace = async (t: ExecutionContext, address: string): Promise<void> => {
  const client = openTemporalClient({ address });
  // Open, it would keep the process running for two minutes.
  t.teardown(() => client.connection.close());
  await withTemporalDeadline(client, 10_000, () =>
    client.workflowService.describeNamespace({ namespace: "default" }),
  );
};

const connectWorker = async (t: ExecutionContext, address: string): Promise<void> => {
  const connection = await NativeConnection.connect({ address, ...readTemporalProxy(address) });
  t.teardown(() => connection.close());
  await connection.workflowService.describeNamespace({ namespace: "default" });
};

const LOWER_CASE = { http: "http_proxy", https: "https_proxy" };
const UPPER_CASE = { http: "HTTP_PROXY", https: "HTTPS_PROXY" };

for (const { http, https } of [LOWER_CASE, UPPER_CASE]) {
  test.serial(`companies and Temporal are called through ${http} and ${https}`, async (t) => {
    const { url, targets } = await startProxy(t);
    configure({ [http]: url, [https]: url });
    const port = await startCompany(t);

    t.is((await callStripe(`http://stripe.test:${port}`)).id, "cus_1");
    t.true((await fetch(`http://charities.test:${port}/`)).ok);
    const address = TEMPORAL_ADDRESS.replace(/^.*:/u, "temporal.test:");
    await describeNamespace(t, address);
    await connectWorker(t, address);

    t.deepEqual(
      [...new Set(targets)].toSorted(),
      [`charities.test:${port}`, `stripe.test:${port}`, address].toSorted(),
    );
    t.is(targets.filter((target) => target === address).length, 2);
  });

  test.serial(`this machine is never behind ${http} and ${https}`, async (t) => {
    const url = await startRefusingProxy(t);
    configure({ [http]: url, [https]: url });
    const port = await startCompany(t);

    for (const host of ["127.0.0.1", "localhost"]) {
      t.is((await callStripe(`http://${host}:${port}`)).id, "cus_1");
      t.true((await fetch(`http://${host}:${port}/`)).ok);
    }
    t.is(findProxy("http://[::1]:8080"), null);
    await describeNamespace(t, TEMPORAL_ADDRESS);
    await connectWorker(t, TEMPORAL_ADDRESS);
  });
}

test.serial("hosts in NO_PROXY are called directly", async (t) => {
  const url = await startRefusingProxy(t);
  configure({ HTTPS_PROXY: url, NO_PROXY: "stripe.test,.internal.test" });
  t.is(findProxy("https://stripe.test"), null);
  t.is(findProxy("https://api.internal.test"), null);
  t.is(findTemporalProxy("temporal.internal.test:7233"), null);
  t.is(findProxy("https://charities.test")?.href, `${url}/`);
});

/** Starts a name server that knows IPv4 addresses and never responds to queries for IPv6 addresses. */
const startNameServer = async (t: ExecutionContext): Promise<string> => {
  const server = createSocket("udp4");
  server.on("message", (query, { address, port }) => {
    const type = query.readUInt16BE(query.indexOf(0, 12) + 1);
    if (type !== 1) {
      return;
    }
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const header = Buffer.from([0, 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    query.copy(header, 0, 0, 2);
    const record = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    server.send(Buffer.concat([header, question, record]), port, address);
  });
  server.bind(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => server.close());
  return `127.0.0.1:${server.address().port}`;
};

test.serial("a host is found if its name server never responds about IPv6", async (t) => {
  const servers = dns.getServers();
  dns.setServers([await startNameServer(t)]);
  t.teardown(() => dns.setServers(servers));
  t.deepEqual(await resolveAddresses("receiver.test"), ["192.0.2.7"]);
});

/** Large, so that the bound is reached long before a request's time limit, even on a busy machine. */
const CHUNK = Buffer.alloc(4 * 1024 * 1024, " ");

/** Serves JSON that never ends, until the test does. Returns its URL and the number of open responses. */
const serveEndless = async (t: ExecutionContext) => {
  let open = 0;
  const server = createServer((_request, response) => {
    open += 1;
    response.once("close", () => {
      open -= 1;
    });
    const send = (): void => {
      if (!response.destroyed && response.write(CHUNK)) {
        setImmediate(send);
      }
    };
    response.writeHead(200, { "Content-Type": "application/json" });
    response.on("drain", send);
    send();
  });
  return { url: `http://127.0.0.1:${await listen(t, server)}`, countOpen: () => open };
};

test("a body within the bound is passed on unchanged, and a longer one fails", async (t) => {
  const response = new Response("12345678", { status: 201, headers: { "X-A": "b" } });
  const bounded = boundBody(response, 8);
  t.is(bounded.status, 201);
  t.is(bounded.headers.get("X-A"), "b");
  t.is(await bounded.text(), "12345678");
  await t.throwsAsync(boundBody(new Response("12345678"), 7).text(), {
    message: /longer than 7 bytes/u,
  });
});

test("an endless response of TreeMapper is an error", async (t) => {
  const { url } = await serveEndless(t);
  const settings = { apiKey: "tm_key", apiBase: url };
  const download = downloadRecords(settings, new AbortController().signal, () => undefined);
  await t.throwsAsync(download, { message: /longer than \d+ bytes/u });
});

test("an endless response of Stripe is an error, and the connection is closed", async (t) => {
  const { url, countOpen } = await serveEndless(t);
  const settings = { secretKey: "sk_test_key", apiBase: url, timeoutMs: 60_000 };
  const { stripe } = createStripeClient(settings);
  await t.throwsAsync(stripe.billing.meters.list());
  await eventually(() => countOpen() === 0);
  t.pass();
});
