import { invalid } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { command } from './part.ts'
import type { Settlement } from './queue/queue.ts'
import type { TailedAttempt } from './tail.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }
/** Of `--once` without `--since`. */
const MINUTES_AT_ONCE = 60

export const commands = [
  command({
    name: 'tenant:webhooks:retry',
    summary: 'Send due deliveries until none is left; also while workers run',
    run: async (webhooks, { terminal, signal }) => {
      const look = meter()
      let sent = 0
      const onSent = () => terminal.progress(`${number(++sent)} sent${paceText(look(sent))}`)
      terminal.record({ sent: await webhooks.retry(signal, onSent) })
    },
  }),
  command({
    name: 'tenant:webhooks:tail',
    summary: "Show a tenant's delivery attempts as they happen",
    arguments: [id],
    options: [
      {
        flags: '--since <time>',
        summary: 'begin so long ago, 15m say; default now, with --once an hour',
        parse: minutes,
      },
      { flags: '--once', summary: 'show past attempts, and exit' },
    ],
    run: async (webhooks, { args, options, terminal, signal }) => {
      const isOnce = options.once === true
      const sinceMinutes: number | undefined = options.since ?? (isOnce ? MINUTES_AT_ONCE : undefined)
      for await (const attempt of webhooks.tail(args.id ?? '', { sinceMinutes, isOnce, signal })) {
        await terminal.item(lineOf(attempt), attempt)
      }
    },
  }),
  command({
    name: 'tenant:webhooks:listen',
    summary: "Send a tenant's events to an address of this machine while this command runs",
    arguments: [id],
    options: [
      { flags: '--forward <url>', summary: 'target, such as http://localhost:3000/hooks', required: true },
      { flags: '--events <names>', summary: 'names, prefix.* or *, separated by commas', default: '*' },
      {
        flags: '--secret <secret>',
        summary: 'signing secret; absent: a new one, which is printed',
        isSecret: true,
      },
    ],
    run: async (webhooks, { args, options, terminal, signal }) => {
      const listener = await webhooks.listen({
        tenantId: args.id ?? '',
        url: options.forward,
        events: String(options.events)
          .split(',')
          .map((name) => name.trim()),
        secret: options.secret,
        onSettled: (settlement) => {
          const attempt = attemptOf(settlement)
          terminal.item(lineOf(attempt), attempt).catch(() => undefined) // the reader has closed; the signal aborts, too
        },
      })
      try {
        terminal.say(`Events of ${args.id} are sent to ${listener.url}, signed with ${listener.secret}`)
        terminal.say('Press Ctrl-C to end.')
        await listener.until(signal)
      } finally {
        await listener.close()
        terminal.say('The subscription has ended. Later events are not sent here.')
      }
    },
  }),
]

const MAX_MINUTES = 100_000
const IN_MINUTES: Readonly<Record<string, number>> = { s: 1 / 60, m: 1, h: 60, d: 1_440 }

/** `90s`, `15m`, `2h`, `3d`; a plain number is minutes. */
function minutes(text: string): number {
  const [, digits, unit = 'm'] = /^(\d{1,6})([smhd])?$/.exec(text) ?? []
  const requested = Number(digits) * (IN_MINUTES[unit] ?? Number.NaN)
  if (requested <= MAX_MINUTES) return requested
  throw invalid([
    { path: 'since', message: `"${text}" must be a duration such as 90s, 15m, 2h or 3d, up to ${MAX_MINUTES}m` },
  ])
}

type Shown = Omit<TailedAttempt, 'webhookId'>

/** An interrupted response has a status and an error. */
const lineOf = ({ startedAt, event, deliveryId, attempt, status, error, durationMs, state }: Shown): string => {
  const response = [status, error].filter((part) => part !== null).join(', ')
  return `${startedAt}  ${event}  ${deliveryId}  attempt ${attempt}: ${response} in ${durationMs} ms, ${state}`
}

const attemptOf = ({ delivery, verdict, startedMs, status, error, durationMs }: Settlement): Shown => ({
  startedAt: new Date(startedMs).toISOString(),
  event: delivery.event,
  deliveryId: delivery.id,
  attempt: delivery.attemptCount + 1,
  status,
  error,
  durationMs,
  state: verdict.state,
})
