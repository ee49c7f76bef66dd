import { DomainError } from "../../runtime/errors.rules.ts";

type Body = { bytes: number; readonly drop: (error: DomainError) => void };

/** The bodies of a client, the oldest first. */
type Client = { bytes: number; readonly bodies: Set<Body> };

/** The memory of a body. */
export type BodyMemory = {
  /** @throws DomainError queue_full */
  readonly resize: (bytes: number) => void;
  readonly free: () => void;
};

const tooMany = (): DomainError =>
  new DomainError("queue_full", "too many request bodies are arriving, try again");

/**
 * Limits the memory for bodies that are arriving. A client may have as much as is free. If it needs more, its own oldest
 * bodies are dropped: they are more likely to have stalled.
 * @returns a function that adds a body, which has no memory yet
 */
export const createArrivingBodies = (
  maximumBytes: number,
): ((clientName: string, drop: Body["drop"]) => BodyMemory) => {
  const clients = new Map<string, Client>();
  let total = 0;
  return (name, drop) => {
    const client = clients.get(name) ?? { bytes: 0, bodies: new Set() };
    const body: Body = { bytes: 0, drop };
    const free = (freed: Body): void => {
      if (client.bodies.delete(freed)) {
        client.bytes -= freed.bytes;
        total -= freed.bytes;
        if (client.bodies.size === 0) {
          clients.delete(name);
        }
      }
    };
    clients.set(name, client);
    client.bodies.add(body);
    return {
      resize: (bytes) => {
        if (!client.bodies.has(body)) {
          return;
        }
        if (bytes > maximumBytes - (total - client.bytes)) {
          // Not even without the client's other bodies.
          throw tooMany();
        }
        for (const oldest of client.bodies) {
          if (client.bytes + bytes - body.bytes <= maximumBytes - (total - body.bytes)) {
            break;
          }
          if (oldest !== body) {
            free(oldest);
            oldest.drop(tooMany());
          }
        }
        client.bytes += bytes - body.bytes;
        total += bytes - body.bytes;
        body.bytes = bytes;
      },
      free: () => free(body),
    };
  };
};
