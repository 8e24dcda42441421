import { Moment } from '../../kernel/api/page.ts'
import { invalid, NotFound } from '../../kernel/base/errors.ts'
import { number } from '../../kernel/base/format.ts'
import { meter, paceText } from '../../kernel/base/progress-rate.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { Doctor, FindingsStand } from '../../kernel/doctor/doctor.ts'
import { diagnoses } from './doctor.ts'
import { command } from './part.ts'
import { probe, probeHere } from './probe.ts'
import { callProvider } from './provider/provider-call.ts'
import type { Synced, Unsynced } from './sync.ts'

const since = (text: string): Date => parsed(Moment, text, 'since')

export const commands = [
  command({
    name: 'billing:sync',
    summary: "Update subscriptions, plans and dunning from the provider's present state",
    arguments: [{ name: 'id', summary: 'only this tenant' }],
    run: async ({ sync, dependencies }, { args, terminal, signal }) => {
      const done: (Synced | Unsynced)[] = []
      await callProvider(dependencies, 'billing.sync', args.id ?? null, async () => {
        const total = args.id === undefined ? await sync.count() : 1
        const look = meter()
        for await (const one of args.id === undefined ? sync.all() : sync.run(args.id)) {
          signal.throwIfAborted()
          done.push(one)
          const pace = paceText(look(done.length, total))
          terminal.progress(`${number(done.length)} of ${number(total)} tenants${pace}`)
        }
      })
      if (args.id !== undefined && done.length === 0) throw NotFound(`Customer of tenant "${args.id}" not found.`)
      terminal.table(
        done.map((one) => ({ ...one })),
        done,
      )
      const faulty = done.filter((one) => 'error' in one).length
      if (faulty > 0)
        throw FindingsStand(`${faulty} of ${done.length} customers could not be updated from the provider.`)
    },
  }),
  command({
    name: 'billing:backfill',
    summary: 'Fetch lost events from the provider, which keeps them for 30 days',
    options: [{ flags: '--since <moment>', summary: 'RFC 3339 or a date', required: true, parse: since }],
    run: async ({ inbox, dependencies }, { options, terminal, signal }) => {
      const look = meter()
      let [seen, taken] = [0, 0]
      await callProvider(dependencies, 'billing.backfill', null, async () => {
        for await (const event of dependencies.payments.events(options.since)) {
          signal.throwIfAborted()
          seen += 1
          if (await inbox.take(event, { isFetched: true })) taken += 1
          terminal.progress(`${number(seen)} events, ${number(taken)} of them new${paceText(look(seen))}`)
        }
      })
      terminal.record({ events: seen, taken })
    },
  }),
  command({
    name: 'billing:replay',
    summary: 'Process events again. Safe to run again: consequences are not repeated',
    arguments: [{ name: 'eventId', summary: "the provider's id of the event" }],
    options: [
      { flags: '--failed', summary: 'all that have failed' },
      { flags: '--since <moment>', summary: 'all that occurred since then; RFC 3339 or a date', parse: since },
      { flags: '--dry-run', summary: 'only list them' },
    ],
    run: async ({ inbox }, { args, options, terminal, signal }) => {
      const { failed, since, dryRun } = options
      if (!args.eventId && !failed && !since) {
        throw invalid([{ path: 'eventId', message: 'Name an event, or give --failed or --since.' }])
      }
      const events = await inbox.replayable({ eventId: args.eventId, failed, since })
      if (args.eventId && events.length === 0) throw NotFound(`Event "${args.eventId}" not found in the inbox.`)
      if (!dryRun) {
        const look = meter()
        for (const [index, { eventId }] of events.entries()) {
          signal.throwIfAborted()
          const pace = paceText(look(index, events.length))
          terminal.progress(`${number(index)} of ${number(events.length)} events${pace}`)
          await inbox.replay(eventId)
        }
      }
      terminal.table(events, { replayed: !dryRun, events })
    },
  }),
  command({
    name: 'billing:cleanup',
    summary: 'Delete processed events past billing.webhook.retentionDays',
    run: async ({ inbox, usage }, { terminal }) => {
      const removed = await inbox.cleanUp()
      await usage.cleanUp()
      terminal.record({ removed })
    },
  }),
  command({
    name: 'billing:doctor',
    summary: 'Check billing, including a live request to the payment provider',
    run: async (billing, { terminal, signal }) => {
      await billing.health.measure()
      const doctor = new Doctor(billing.dependencies.kernel.log)
      for (const diagnosis of diagnoses) doctor.register(diagnosis, billing)
      const { status, checks, counts } = await doctor.examine({ signal })
      terminal.table(
        checks.map(({ severity, code, message, remedy }) => ({ severity, code, message, remedy })),
        { status, checks },
        'no problem found',
      )
      if (status !== 'ok') throw FindingsStand(`Billing check failed: ${counts.error + counts.warn} problems found.`)
    },
  }),
  command({
    name: 'billing:test-webhook',
    summary: 'Send a signed test event to the endpoint and show its result',
    options: [
      {
        flags: '--url <url>',
        summary: 'URL that the provider sends to; default: the receiver itself, without the network',
      },
    ],
    run: async (billing, { options, terminal }) => {
      const probed = options.url ? await probe(billing, options.url) : await probeHere(billing)
      terminal.record({ ...probed })
      if (probed.received) return
      const outcome = `received the response ${probed.status}, and is not in the inbox of this installation`
      throw FindingsStand(
        `The event ${outcome}. Check which service listens there, and whether its secret is the same.`,
      )
    },
  }),
]
