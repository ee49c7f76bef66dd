import { readFileSync } from "node:fs";
import { getDefaultAutoSelectFamily, setDefaultAutoSelectFamily } from "node:net";
import { tmpdir } from "node:os";
import type { ExecutionContext } from "ava";
import test from "ava";
import { findFreePort } from "../../runtime/server/ports.ts";
import { createWebhookSender } from "../../modules/events/createWebhookSender.ts";
import { isAllowedAddress } from "../../modules/events/allowedAddresses.ts";
import { createTestCa } from "../support/createTestCa.ts";
import { answer, holdOpen, startReceiver } from "./startReceiver.ts";
import { decideDelivery, parseRetryAfter } from "../../modules/events/decideDelivery.rules.ts";
import type { AttemptResult } from "../../modules/events/decideDelivery.rules.ts";

const LOCAL = { allowsHttp: true, allowedNetworks: ["127.0.0.0/8"] };
const NO_SIGNAL = new AbortController().signal;
const MESSAGE = { headers: { "x-test": "1" }, body: '{"a":"ü"}' };

const createSend = (options: Partial<Parameters<typeof createWebhookSender>[0]> = {}) => {
  const send = createWebhookSender({ ...LOCAL, ...options });
  return (url: string, signal = NO_SIGNAL) => send({ url, ...MESSAGE }, signal);
};

/** Starts a receiver at 127.0.0.2, and one at the same port of 127.0.0.1. */
const startOnBothHosts = async (t: ExecutionContext) => {
  // A port that the system chooses for the first may be that of another program's connection at the second.
  const port = await findFreePort();
  return {
    allowed: await startReceiver(t, { host: "127.0.0.2", port }),
    forbidden: await startReceiver(t, { host: "127.0.0.1", port }),
  };
};

test("a status from 200 to 299 is a success; a redirect, which is not followed, and any other status are failures", async (t) => {
  const elsewhere = await startReceiver(t);
  const receiver = await startReceiver(t);
  const send = createSend();
  for (const status of [200, 202, 204, 299, 301, 302, 307, 308, 404, 503]) {
    const isRedirect = status >= 300 && status < 400;
    const headers = { "Retry-After": "120", ...(isRedirect && { Location: elsewhere.url }) };
    receiver.respond(answer(status, headers, status === 204 ? "" : "x".repeat(100_000)));
    const failure = `status ${status}${isRedirect ? "; redirects are not followed" : ""}`;
    const error = status < 300 ? null : failure;
    t.deepEqual(await send(receiver.url), { status, error, retryAfterMs: 120_000 });
  }
  t.deepEqual(elsewhere.received, []);
  t.is(receiver.received.length, 10);
  t.is(receiver.received[0]?.body, MESSAGE.body);
  t.is(receiver.received[0]?.headers["x-test"], "1");
});

test("a body without an end does not delay the result of a request that succeeded", async (t) => {
  const receiver = await startReceiver(t);
  receiver.respond((response) => void response.writeHead(200).write("begun"));
  t.like(await createSend({ timeoutMs: 2000 })(receiver.url), { status: 200, error: null });
});

test("a server that does not respond in time, refuses, hangs up or switches the protocol is a failure without a status", async (t) => {
  const receiver = await startReceiver(t);
  receiver.respond(holdOpen);
  const sendImpatiently = createSend({ timeoutMs: 500 });
  const late = { status: null, error: "no response within 0.5 seconds" };
  t.like(await sendImpatiently(receiver.url), late);
  const send = createSend();
  receiver.respond((response) => response.destroy());
  t.like(await send(receiver.url), { error: "the connection was closed before a response" });
  // Node closes such a connection without an error.
  receiver.respond(({ socket }) => {
    socket?.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  });
  t.like(await send(receiver.url), { error: "the connection was closed before a response" });
  t.like(await send("http://127.0.0.1:1/"), { error: "the connection was refused" });
  const unknown = createSend({ resolve: () => Promise.resolve([]) });
  t.like(await unknown("http://nowhere.example/"), { error: "the host name cannot be resolved" });
});

test("a request that the worker's shutdown interrupts has no result", async (t) => {
  const receiver = await startReceiver(t);
  const stop = new AbortController();
  receiver.respond(() => stop.abort());
  await t.throwsAsync(createSend()(receiver.url, stop.signal), { name: "AbortError" });
});

const REFUSED_IPV4 =
  "168.63.129.16 0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 192.0.0.1 192.168.1.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255";
const REFUSED_IPV6 =
  ":: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:7f00:1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 100::1 2001::1 2001:db8::1 2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1";

test("private, local, translated, reserved and multicast addresses are not called, public ones are", (t) => {
  const refused = [...`${REFUSED_IPV4} ${REFUSED_IPV6}`.split(" "), "not an address"];
  const called = refused.filter((address) => isAllowedAddress(address, []));
  t.deepEqual(called, []);
  for (const address of ["1.1.1.1", "172.15.0.1", "100.128.0.1", "2606:4700::1111"]) {
    t.true(isAllowedAddress(address, []), address);
  }
  t.true(isAllowedAddress("10.1.2.3", ["fd00::/8", "10.1.0.0/16"]));
  t.false(isAllowedAddress("10.1.2.3", ["10.1.0.0/16", "!10.1.2.0/24"]));
  t.false(isAllowedAddress("203.0.114.7", ["!203.0.114.0/24"]));
  t.true(isAllowedAddress("203.0.115.7", ["!203.0.114.0/24"]));
  t.true(isAllowedAddress("::ffff:10.1.2.3", ["10.1.0.0/16"]));
  t.false(isAllowedAddress("10.2.2.3", ["10.1.0.0/16"]));
});

test("no connection is made to an address that is not allowed, however the URL writes it", async (t) => {
  const receiver = await startReceiver(t);
  const send = createSend({ allowedNetworks: [] });
  const hosts =
    "127.0.0.1 2130706433 0x7f.1 0177.0.0.1 127.1 0 [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] localhost a.localhost LOCALHOST.";
  for (const host of hosts.split(" ")) {
    const result = await send(`http://${host}:${receiver.port}/`);
    t.like(result, { status: null, error: "the host has no public address" }, host);
  }
  t.deepEqual(receiver.received, []);
});

test("a host whose second look-up gives another address is called at the address that was checked", async (t) => {
  const { allowed, forbidden } = await startOnBothHosts(t);
  let looks = 0;
  const send = createSend({
    allowedNetworks: ["127.0.0.2/32"],
    resolve: () => {
      looks += 1;
      return Promise.resolve([looks === 1 ? "127.0.0.2" : "127.0.0.1"]);
    },
  });
  const url = `http://rebinding.example:${allowed.port}/`;
  t.like(await send(url), { status: 204, error: null });
  t.is(looks, 1);
  t.like(await send(url), { error: "the host has no public address" });
  t.is(allowed.received.length, 1);
  t.deepEqual(forbidden.received, []);
});

test("of a host's addresses only those that are allowed are called, also where Node asks for one", async (t) => {
  const { allowed, forbidden } = await startOnBothHosts(t);
  const send = createSend({
    allowedNetworks: ["127.0.0.2/32"],
    resolve: () => Promise.resolve(["127.0.0.1", "::ffff:127.0.0.1", "127.0.0.2"]),
  });
  const url = `http://both.example:${allowed.port}/`;
  const byDefault = getDefaultAutoSelectFamily();
  t.teardown(() => setDefaultAutoSelectFamily(byDefault));
  for (const asksForAll of [true, false]) {
    setDefaultAutoSelectFamily(asksForAll);
    t.like(await send(url), { status: 204 });
  }
  t.deepEqual([allowed.received.length, forbidden.received.length], [2, 0]);
});

test("HTTPS checks the certificate and the address, and plain HTTP is refused by default", async (t) => {
  const ca = createTestCa(tmpdir());
  const files = ca.issue("shop.example", { names: ["DNS:shop.example"] });
  const tls = {
    key: readFileSync(files.key, "utf8"),
    cert: readFileSync(files.certificate, "utf8"),
  };
  const receiver = await startReceiver(t, { tls });
  const url = `https://shop.example:${receiver.port}/hook`;
  const options = { allowsHttp: false, resolve: () => Promise.resolve(["127.0.0.1"]) };
  const trusting = createSend({ ...options, ca: readFileSync(ca.certificate, "utf8") });

  t.like(await trusting(url), { status: 204, error: null });
  const wrongName = `https://other.example:${receiver.port}/hook`;
  t.like(await trusting(wrongName), { error: "the request failed: ERR_TLS_CERT_ALTNAME_INVALID" });
  t.like(await createSend(options)(url), {
    error: "the request failed: UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  });
  const strict = createSend({ ...options, allowedNetworks: [] });
  t.like(await strict(url), { error: "the host has no public address" });
  t.like(await trusting(url.replace("https", "http")), {
    error: "the URL must begin with https://",
  });
  t.is(receiver.received.length, 1);
});

const NOW = new Date("2027-01-01T00:00:00Z");
const FAILED: AttemptResult = { status: 500, error: "status 500", retryAfterMs: null };

const delaySeconds = (attempts: number, given: Partial<AttemptResult> = {}, random = 0.5) => {
  const { dueAt } = decideDelivery({ ...FAILED, ...given }, { attempts, now: NOW, random });
  return dueAt && (dueAt.getTime() - NOW.getTime()) / 1000;
};

test("ten attempts are made in 75 hours, spread by a fifth, and then the delivery has failed", (t) => {
  const delays = Array.from({ length: 9 }, (_, index) => delaySeconds(index + 1) ?? 0);
  const minutes = delays.map((seconds) => seconds / 60);
  t.deepEqual(minutes, [1 / 12, 5, 30, 120, 300, 600, 840, 1200, 1440]);
  t.is(Math.floor(delays.reduce((sum, delay) => sum + delay, 0) / 3600), 75);
  t.deepEqual([delaySeconds(2, {}, 0), delaySeconds(2, {}, 0.999_999_9)], [240, 360]);
  const last = decideDelivery(FAILED, { attempts: 10, now: NOW, random: 0.5 });
  t.deepEqual(last, { state: "failed", dueAt: null });
});

test("a receiver's delay, in seconds or as a date, is respected up to twice the schedule's", (t) => {
  t.is(delaySeconds(2, { retryAfterMs: 400_000 }), 400);
  t.is(delaySeconds(2, { retryAfterMs: 4_000_000 }), 600);
  t.is(delaySeconds(2, { retryAfterMs: 1000 }), 300);
  t.deepEqual(
    [
      "120",
      "Fri, 01 Jan 2027 00:01:00 GMT",
      "Thu, 31 Dec 2026 00:00:00 GMT",
      "soon",
      undefined,
    ].map((header) => parseRetryAfter(header, NOW)),
    [120_000, 60_000, 0, null, null],
  );
});
