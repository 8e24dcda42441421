/** Adds events to the active span of the host. `@opentelemetry/api` is an optional peer; without it there are no traces. */
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
