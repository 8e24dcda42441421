/** Receives the requests that guards have accepted with a tenant. The adapters of the hosts (http/hosts) measure them. */
export interface Traffic {
  /**
   * Called at the end of each request, so it must be fast and must not throw.
   *
   * @param status 0: the request ended without a response
   * @param bodyBytes of the response body as written by the route: before TLS, without HTTP framing
   */
  requestEnded(tenantId: string, status: number, bodyBytes: number): void
}

/** Undefined without a receiver, so that nothing is measured. */
export function trafficTo(all: readonly Traffic[]): Traffic | undefined {
  if (all.length < 2) return all[0]
  return {
    requestEnded(tenantId, status, bodyBytes) {
      for (const one of all) one.requestEnded(tenantId, status, bodyBytes)
    },
  }
}
