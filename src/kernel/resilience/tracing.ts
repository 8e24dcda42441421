/**
 * Traces with OpenTelemetry. `@opentelemetry/api` is an optional peer: without it there are no spans, and `traceparent` is passed on
 * unchanged. Spans contain neither SQL nor texts of errors, because both can contain values of tenants.
 */
import type { Span as ApiSpan } from '@opentelemetry/api'
import { currentContext, enterContext } from '../base/context.ts'
import { TenancyError } from '../base/errors.ts'
import { traceIdsOf, traceparentOf } from '../base/trace-context.ts'

/** Attributes without a value are omitted. */
export type Attributes = Readonly<Record<string, string | number | null | undefined>>

export interface SpanOptions {
  readonly name: string
  /**
   * `consumer`: work after the request that sent it, so the active span is not its parent. `server` becomes `internal` inside an active
   * span of this process: the HTTP instrumentation of the host has the server span of the request.
   */
  readonly kind: 'internal' | 'server' | 'client' | 'consumer'
  readonly attributes?: Attributes
}

export interface Span {
  rename(name: string): void
  set(attributes: Attributes): void
  /** Marks a failure that is not thrown. */
  fail(errorType: string): void
}

/** Runs `work` in a span, whose parent is the active span, or else the trace of the context. */
export type RunInSpan = <T>(options: SpanOptions, work: (span: Span) => Promise<T>) => Promise<T>

export interface Tracing {
  /** Adds an event to the active span. Does nothing when no span is active. */
  event(name: string, attributes: Readonly<Record<string, string>>): void
  /** Header `traceparent` for outgoing messages: of the active span, or else of the context. */
  traceparent(): string | undefined
  /** Undefined without `@opentelemetry/api`. */
  readonly span: RunInSpan | undefined
}

const contextTraceparent = (): string | undefined => currentContext().traceparent

export const NO_TRACING: Tracing = { event: () => undefined, traceparent: contextTraceparent, span: undefined }

export async function openTracing(): Promise<Tracing> {
  try {
    return tracingBy(await import('@opentelemetry/api'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return NO_TRACING
    throw error
  }
}

type Api = typeof import('@opentelemetry/api')

function tracingBy({ context, isSpanContextValid, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace }: Api): Tracing {
  const tracer = trace.getTracer('tenantry')
  const kinds = {
    internal: SpanKind.INTERNAL,
    server: SpanKind.SERVER,
    client: SpanKind.CLIENT,
    consumer: SpanKind.CONSUMER,
  }

  /** Undefined without a valid span. */
  const traceparentIn = (within = context.active()): string | undefined => {
    const active = trace.getSpanContext(within)
    return active && isSpanContextValid(active) ? traceparentOf(active) : undefined
  }

  const parentOf = (kind: SpanOptions['kind']) => {
    const within = kind === 'consumer' ? ROOT_CONTEXT : context.active()
    const remote = traceparentIn(within) === undefined ? contextTraceparent() : undefined
    return remote === undefined ? within : trace.setSpanContext(within, { ...traceIdsOf(remote), isRemote: true })
  }

  const kindOf = (kind: SpanOptions['kind']) => {
    const isInside = traceparentIn() !== undefined && trace.getSpanContext(context.active())?.isRemote !== true
    return kinds[kind === 'server' && isInside ? 'internal' : kind]
  }

  const failed = (span: ApiSpan, error: unknown): void => {
    span.setAttribute('error.type', errorTypeOf(error))
    const isOfCaller = error instanceof TenancyError && error.status < 500
    if (!isOfCaller) span.setStatus({ code: SpanStatusCode.ERROR })
  }

  return {
    event: (name, attributes) => void trace.getActiveSpan()?.addEvent(name, attributes),
    traceparent: () => traceparentIn() ?? contextTraceparent(),
    async span({ name, kind, attributes = {} }, work) {
      const parent = parentOf(kind)
      const span = tracer.startSpan(name, { kind: kindOf(kind), attributes: withValues(attributes) }, parent)
      const within = trace.setSpan(parent, span)
      const traceparent = traceparentIn(within)
      try {
        return await context.with(within, () =>
          enterContext({ ...currentContext(), traceparent }, () =>
            work({
              rename: (newName) => void span.updateName(newName),
              set: (more) => void span.setAttributes(withValues(more)),
              fail(errorType) {
                span.setAttribute('error.type', errorType)
                span.setStatus({ code: SpanStatusCode.ERROR })
              },
            }),
          ),
        )
      } catch (error) {
        failed(span, error)
        throw error
      } finally {
        span.end()
      }
    },
  }
}

const withValues = (attributes: Attributes): Record<string, string | number> =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== null && value !== undefined)) as Record<
    string,
    string | number
  >

/** The code of an error, or else its class: its message can contain values. */
function errorTypeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : error.name
}
