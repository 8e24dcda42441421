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
    summary: 'Bring subscriptions, plans and dunning up to what the provider has now',
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
      if (args.id !== undefined && done.length === 0) throw NotFound(`The tenant "${args.id}" has no customer.`)
      terminal.table(
        done.map((one) => ({ ...one })),
        done,
      )
      const faulty = done.filter((one) => 'error' in one).length
      if (faulty > 0) throw FindingsStand(`${faulty} of ${done.length} could not be brought up to the provider.`)
    },
  }),
  command({
    name: 'billing:backfill',
    summary: 'Fetch events that were lost on the way; the provider has those of the last 30 days',
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
    summary: 'Process events again; what they have said before is not said again',
    arguments: [{ name: 'eventId', summary: 'as the provider calls it' }],
    options: [
      { flags: '--failed', summary: 'all that have failed' },
      { flags: '--since <moment>', summary: 'all that happened since then; RFC 3339 or a date', parse: since },
      { flags: '--dry-run', summary: 'only say which' },
    ],
    run: async ({ inbox }, { args, options, terminal, signal }) => {
      const { failed, since, dryRun } = options
      if (!args.eventId && !failed && !since) {
        throw invalid([{ path: 'eventId', message: 'name an event, or give --failed or --since' }])
      }
      const events = await inbox.replayable({ eventId: args.eventId, failed, since })
      if (args.eventId && events.length === 0) throw NotFound(`There is no event "${args.eventId}" in the inbox.`)
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
    summary: 'Remove events that are done with and past billing.webhook.retentionDays',
    run: async ({ inbox, usage }, { terminal }) => {
      const removed = await inbox.cleanUp()
      await usage.cleanUp()
      terminal.record({ removed })
    },
  }),
  command({
    name: 'billing:doctor',
    summary: 'Say whether billing works: the provider is asked now',
    run: async (billing, { terminal, signal }) => {
      await billing.health.measure()
      const doctor = new Doctor(billing.dependencies.kernel.log)
      for (const diagnosis of diagnoses) doctor.register(diagnosis, billing)
      const report = await doctor.examine({ signal })
      terminal.table(
        report.checks.map(({ severity, code, message, remedy }) => ({ severity, code, message, remedy })),
        report,
        'nothing is wrong',
      )
      if (report.status !== 'ok') throw FindingsStand(`${report.checks.length} of billing.`)
    },
  }),
  command({
    name: 'billing:test-webhook',
    summary: 'Send a signed event to the endpoint, as the provider would, and say what came of it',
    options: [
      {
        flags: '--url <url>',
        summary: 'where the provider sends to; default: not over the network, to the receiver itself',
      },
    ],
    run: async (billing, { options, terminal }) => {
      const probed = options.url ? await probe(billing, options.url) : await probeHere(billing)
      terminal.record({ ...probed })
      if (probed.received) return
      const outcome = `was answered with ${probed.status}, and is not in the inbox of this installation`
      throw FindingsStand(`The event ${outcome}: see what listens there, and whether its secret is the same.`)
    },
  }),
]
