/** The commands of webhooks that only read, or send requests as a client. */
export const READING_WEBHOOK_COMMANDS = ["list", "deliveries", "listen"].map(
  (name) => `webhook ${name}`,
);

/** The others. Their audit entries are checked in endpoints.test.ts. */
export const WRITING_WEBHOOK_COMMANDS = Object.fromEntries(
  ["create", "update", "delete", "rotate", "ping", "recover"].map((name) => [
    `webhook ${name}`,
    "test/events/endpoints.test.ts",
  ]),
);
