/** Who is told of the requests that guards have let through with a tenant. The adapters of the hosts (http/hosts) measure and tell. */
export interface Traffic {
  /**
   * A request is over. On the path of each, so it may neither throw nor take long.
   *
   * @param status 0: it was over before there was an answer
   * @param bodyBytes of the answer's body, as the route has written it: before TLS, and without the frames of HTTP
   */
  requestEnded(tenantId: string, status: number, bodyBytes: number): void
}

/** Undefined when nobody wants to know, so that nothing is measured. */
export function trafficTo(all: readonly Traffic[]): Traffic | undefined {
  if (all.length < 2) return all[0]
  return {
    requestEnded(tenantId, status, bodyBytes) {
      for (const one of all) one.requestEnded(tenantId, status, bodyBytes)
    },
  }
}
