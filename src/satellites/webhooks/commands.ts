import { command } from '../../kernel/commands.ts'
import { invalid } from '../../kernel/errors.ts'
import { parsed } from '../../kernel/parsed.ts'
import { EventPatterns } from './event-names.ts'
import type { Settlement } from './queue.ts'
import type { TailedAttempt } from './tail.ts'
import type { Webhooks } from './webhooks.ts'

const id = { name: 'id', summary: 'of the tenant', required: true }

export const commands = [
  command<Webhooks>({
    name: 'tenant:webhooks:retry',
    summary: 'Send what is due now, until nothing is; beside running workers, too',
    run: async (webhooks, { terminal, signal }) => {
      terminal.record({ sent: await webhooks.retry(signal) })
    },
  }),
  command<Webhooks>({
    name: 'tenant:webhooks:tail',
    summary: "Show a tenant's attempts to deliver as they are made",
    arguments: [id],
    options: [
      { flags: '--since <minutes>', summary: 'begin so long ago', parse: minutes, default: 0 },
      { flags: '--format <format>', summary: 'text or ndjson', parse: format, default: 'text' },
      { flags: '--once', summary: 'show those there are, and end' },
    ],
    run: async (webhooks, { args, options, terminal, signal }) => {
      const wish = { sinceMinutes: options.since, isOnce: Boolean(options.once), signal }
      for await (const attempt of webhooks.tail(args.id ?? '', wish)) {
        await terminal.write(`${options.format === 'ndjson' ? JSON.stringify(attempt) : textOf(attempt)}\n`)
      }
    },
  }),
  command<Webhooks>({
    name: 'tenant:webhooks:listen',
    summary: "Send a tenant's events to an address of this machine, for as long as this runs",
    arguments: [id],
    options: [
      { flags: '--forward <url>', summary: 'where to, http://localhost:3000/hooks say', required: true },
      { flags: '--events <names>', summary: 'names, prefix.* or *, separated by commas', default: '*' },
    ],
    run: async (webhooks, { args, options, terminal, signal }) => {
      const events = parsed(EventPatterns, String(options.events).split(','), 'events')
      const listener = await webhooks.listen(args.id ?? '', options.forward, events)
      try {
        terminal.say(`events of ${args.id} go to ${options.forward}, signed with ${listener.secret}; end with Ctrl-C`)
        listener.onAttempt((settlement) => terminal.say(lineOf(settlement)))
        await new Promise<void>((resolve) => {
          if (signal.aborted) resolve()
          signal.addEventListener('abort', () => resolve(), { once: true })
        })
      } finally {
        await listener.close()
      }
    },
  }),
]

const MAX_MINUTES = 100_000

function minutes(text: string): number {
  if (/^\d{1,6}$/.test(text) && Number(text) <= MAX_MINUTES) return Number(text)
  throw invalid([{ path: 'since', message: `"${text}" is not a whole number of minutes up to ${MAX_MINUTES}` }])
}

function format(text: string): 'text' | 'ndjson' {
  if (text === 'text' || text === 'ndjson') return text
  throw invalid([{ path: 'format', message: `"${text}" is not one of text, ndjson` }])
}

const textOf = ({ startedAt, event, deliveryId, attempt, status, error, durationMs, state }: TailedAttempt): string =>
  `${startedAt}  ${event}  ${deliveryId}  attempt ${attempt}: ${status ?? error} in ${durationMs} ms, ${state}`

const lineOf = ({ delivery, status, error, durationMs }: Settlement): string =>
  `${delivery.event}  ${delivery.id}  attempt ${delivery.attemptCount + 1}: ${status ?? error} in ${durationMs} ms`
