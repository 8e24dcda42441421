/** Responses that start/early.ts has requested. Each is used once, and only at the start. */

declare global {
  interface Window {
    /** By address. */
    earlyRequests?: Map<string, Promise<Response>>
  }
}

const START_MS = 10_000

/** The response to a GET request. An early response that is late, or has another query, is closed: nothing reads its outcome. */
export function get(url: string, request: RequestInit = {}): Promise<Response> {
  const [path = url] = url.split('?')
  const early = take(url)
  if (early && performance.now() < START_MS) return early
  for (const unused of [early, take(path)]) unused?.then(({ body }) => body?.cancel()).catch(() => undefined)
  return fetch(url, request)
}

function take(url: string): Promise<Response> | undefined {
  const early = window.earlyRequests?.get(url)
  window.earlyRequests?.delete(url)
  return early
}
