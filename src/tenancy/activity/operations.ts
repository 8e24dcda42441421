/** The stream of changes as an operation, and the command that prints them. */
import { once } from 'node:events'
import { z } from 'zod'
import { preferredMediaType } from '../../kernel/api/media-type.ts'
import { StreamReply } from '../../kernel/api/operation.ts'
import { Page, pageOf } from '../../kernel/api/page.ts'
import { currentContext } from '../../kernel/base/context.ts'
import { part } from '../../kernel/part.ts'
import { type Activity, TooManyStreams } from './activity.ts'
import { ActivityChange } from './change.ts'

const { operation, command } = part<Activity>()

const EVENTS = 'text/event-stream'

export const operations = [
  operation({
    name: 'activity.stream',
    method: 'GET',
    path: '/activity',
    summary: 'Stream the names of changes, or list recent ones, the newest first',
    description:
      `With \`Accept: ${EVENTS}\` the response is a stream of server-sent events: \`change\` with \`{ action, tenantId, target, at }\`, ` +
      'and `gap` after possibly missed changes: read again. It has changes by operators, hosts and Tenantry in every process, never values, ' +
      'deliveries or usage; only those of objects that the token could read, of its tenants. `Last-Event-ID` continues after one of the ' +
      'last 1,000 changes. A comment follows 15 s without an event. The stream ends when the token or session ends. A process has at most ' +
      '100 streams, 20 of one caller. Otherwise the response lists the last changes that this process has received since its start.',
    query: z.strictObject(Page.shape),
    reply: pageOf(ActivityChange),
    streams: [EVENTS],
    scope: 'any',
    errors: [TooManyStreams],
    handle: async (activity, { query, headers, currentGrant }) => {
      const type = preferredMediaType(headers.get('accept'), ['application/json', EVENTS])
      if (type !== EVENTS || !currentGrant) return activity.recent(query)
      const lastEventId = headers.get('last-event-id') ?? undefined
      return new StreamReply(
        EVENTS,
        undefined,
        activity.open({ caller: currentContext().actor.id, lastEventId, currentGrant }),
      )
    },
  }),
]

export const commands = [
  command({
    name: 'activity',
    summary: 'Print each change by operators, hosts and Tenantry in any process, until Ctrl-C',
    run: async (activity, { terminal, signal }) => {
      const stop = activity.listen((change) => {
        if (!change) terminal.say('Changes may be missing: the connection to the database was lost.')
        else terminal.item(`${change.at}  ${change.action}  ${change.tenantId ?? '-'}  ${change.target}`, change)
      })
      terminal.say('Waiting for changes. Ctrl-C ends the command.')
      if (!signal.aborted) await once(signal, 'abort')
      stop()
    },
  }),
]
