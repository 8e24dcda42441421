/** The ten tasks of operators, with the keys and clicks that each needs at most, from any screen with an active session. */

interface Task {
  readonly title: string
  readonly keys: number
  readonly clicks: number
}

/** The tests of tasks assert the counts; the table of docs/console.md contains them. Typed text is not counted. */
export const TASKS = {
  access: { title: 'Why is a tenant blocked? By its id, name, domain, or a value of its metadata', keys: 2, clicks: 2 },
  attention: { title: 'Conditions that need an operator, the worst first', keys: 2, clicks: 1 },
  delivery: { title: 'A webhook delivery by its pasted id: request, response, replay', keys: 4, clicks: 4 },
  replay: { title: 'Replay the failed deliveries of a receiver since an outage, counted first', keys: 4, clicks: 4 },
  suspension: { title: 'Suspend a tenant, with its id typed', keys: 3, clicks: 3 },
  suspensionUndo: { title: 'Undo the suspension', keys: 1, clicks: 1 },
  flag: { title: 'A flag for 10 % of a tenant’s users; is user 42 included?', keys: 7, clicks: 7 },
  quota: { title: 'Tenants above 80 % of a quota; move one to a larger plan', keys: 5, clicks: 5 },
  history: { title: 'Who changed this object, and the previous value', keys: 1, clicks: 1 },
  dunning: { title: 'Tenants in dunning as CSV', keys: 3, clicks: 2 },
  impersonation: { title: 'Impersonate a user, with a reason, for 15 minutes', keys: 4, clicks: 4 },
  impersonationEnd: { title: 'End the impersonation', keys: 1, clicks: 1 },
} as const satisfies Readonly<Record<string, Task>>

export type TaskName = keyof typeof TASKS

/** The table of the guide. */
export const taskTable = (): string =>
  [
    '| task | keys | clicks |',
    '| --- | --- | --- |',
    ...Object.values(TASKS).map(({ title, keys, clicks }) => `| ${title} | ${keys} | ${clicks} |`),
  ].join('\n')
