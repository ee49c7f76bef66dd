/** What happens to a request on its way. */
export type Fault =
  /** A proxy responds itself. */
  | {
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: string;
    }
  /** The service handles the request, and the connection breaks before the response. */
  | "lost response"
  /** The service handles the request, and the connection breaks in the middle of the response. */
  | "cut response"
  /** The connection breaks before the service has the request. */
  | "lost request"
  | "silence";

export type SeenRequest = { readonly headers: Headers };

/** Creates a `fetch` that treats the first requests badly, as a network does, and makes all others. */
export const createFaultyFetch = (faults: readonly Fault[]) => {
  const seen: SeenRequest[] = [];
  const faultyFetch: typeof fetch = async (input, init) => {
    const fault = faults[seen.length];
    seen.push({ headers: new Headers(init?.headers) });
    const failure = new TypeError("fetch failed");
    if (fault === "silence") {
      return new Promise((_resolve, reject) => {
        init?.signal?.addEventListener("abort", () => reject(failure));
      });
    }
    if (fault === "lost request") {
      throw failure;
    }
    if (typeof fault === "object") {
      return new Response(fault.body ?? "", fault);
    }
    const response = await fetch(input, init);
    const bytes = await response.bytes();
    if (fault === "lost response") {
      throw failure;
    }
    const body = new ReadableStream({
      start: (controller) => {
        if (fault === "cut response") {
          controller.enqueue(bytes.subarray(0, bytes.length / 2));
          controller.error(failure);
        } else {
          controller.enqueue(bytes);
          controller.close();
        }
      },
    });
    return new Response(body, response);
  };
  return { fetch: faultyFetch, seen };
};
