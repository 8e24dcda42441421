/**
 * What is told to the host's traces: events on the span that is active. `@opentelemetry/api` is an optional peer; a host
 * that does not have it has no traces to tell.
 */
export interface Tracing {
  /** Does nothing when no span is active. */
  event(name: string, attributes: Readonly<Record<string, string>>): void
}

export const NO_TRACING: Tracing = { event: () => undefined }

export async function openTracing(): Promise<Tracing> {
  try {
    const { trace } = await import('@opentelemetry/api')
    return { event: (name, attributes) => void trace.getActiveSpan()?.addEvent(name, attributes) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return NO_TRACING
    throw error
  }
}
