import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineError } from '../base/errors.ts'
import { part } from '../part.ts'
import type { Caller } from './caller.ts'
import type { CommandInput, Terminal } from './commands.ts'
import {
  type AnyOperation,
  type CallInput,
  type CommandForm,
  JobFailure,
  Reply,
  StreamReply,
  type Waiting,
} from './operation.ts'
import { Page, pageOf } from './page.ts'
import { commandsOf } from './projection.ts'

const NotReady = defineError('E_NOT_READY', 409, 'Not ready')

const Note = z.object({ id: z.string(), text: z.string(), state: z.string() })
type Note = z.output<typeof Note>

const NewNote = z.strictObject({
  text: z.string().min(1).meta({ description: 'The `text` of the note' }),
  sizeBytes: z.int().min(1).optional(),
  isPinned: z.boolean().optional(),
  labels: z.array(z.string()).optional().describe('URLs of it'),
  metadata: z.record(z.string(), z.unknown()).optional(),
})

interface Notes {
  readonly notes: Note[]
}

const { operation } = part<Notes>()
const byId = z.object({ ownerId: z.string().meta({ description: 'Owner of the notes' }), id: z.string() })

const getNote = operation({
  name: 'notes.get',
  method: 'GET',
  path: '/owners/{ownerId}/notes/{id}',
  summary: 'Read a note',
  params: byId,
  reply: Note,
  command: 'note:show',
  handle: async ({ notes }, { params }) => notes.find(({ id }) => id === params.id) ?? expect.fail('no such note'),
})

const listNotes = (command: string | CommandForm) =>
  operation({
    name: 'notes.list',
    method: 'GET',
    path: '/notes',
    summary: 'List notes',
    query: z.strictObject({
      isPinned: z
        .enum(['true', 'false'])
        .transform((text) => text === 'true')
        .optional()
        .meta({ description: 'Pinned ones only' }),
      ...Page.shape,
    }),
    reply: pageOf(Note),
    command,
    handle: async ({ notes }, { query: { limit, cursor = '0', isPinned } }) => {
      expect([true, undefined]).toContain(isPinned)
      const end = Number(cursor) + Math.min(limit, 2)
      return { data: notes.slice(Number(cursor), end), nextCursor: end < notes.length ? String(end) : null }
    },
  })

const createNote = (form: Omit<CommandForm<Note>, 'name'> = {}) =>
  operation({
    name: 'notes.create',
    method: 'POST',
    path: '/owners/{ownerId}/notes',
    summary: 'Create a note',
    params: z.object({ ownerId: z.string() }),
    body: NewNote,
    reply: Note,
    status: 202,
    command: { name: 'note:create', ...form },
    handle: async ({ notes }, { body: { text, labels, metadata } }) => {
      const note = { id: 'new', text: JSON.stringify({ text, labels, metadata }), state: 'pending' }
      notes.push(note)
      return new Reply(202, note, { location: '/notes/new' })
    },
    settled: async ({ notes }, { id }, signal, location) => {
      expect(location).toBe('/notes/new')
      if (signal.aborted) throw new Error('the wait has no time')
      notes[0] = { id, text: '', state: 'failed' }
      return new JobFailure({ code: 'E_NOT_READY', message: 'no space' })
    },
  })

/** A command's input; the terminal records its output. */
function input({ args = {}, options = {}, answer = true }: Partial<CommandInput> & { answer?: boolean } = {}) {
  const output: unknown[][] = []
  const record =
    (kind: string) =>
    (...values: unknown[]): void =>
      void output.push([kind, ...values])
  const terminal: Terminal = {
    input: Readable.from([]),
    isJson: false,
    isConfirmed: true,
    table: record('table'),
    list: async (values) => record('list')(await Array.fromAsync(values)),
    page: async (rows, values) => record('page')(rows, values),
    record: record('record'),
    write: async (chunk) => record('write')(chunk),
    item: async (text) => record('item')(text),
    say: record('say'),
    progress: record('progress'),
    prompt: async (label) => record('prompt')(label),
    confirm: async (question) => {
      record('confirm')(question)
      return answer
    },
  }
  return { output, given: { args, options, terminal, signal: new AbortController().signal } }
}

const three = (): Notes => ({ notes: ['a', 'b', 'c'].map((id) => ({ id, text: `note ${id}`, state: 'done' })) })

const only = (operation: AnyOperation) => commandsOf([operation])[0] ?? expect.fail('the operation has no command')

describe('a command with a plan', () => {
  const plan = operation({
    name: 'notes.plan',
    method: 'POST',
    path: '/plan',
    summary: 'Plan a note',
    body: z.strictObject({ text: z.string() }),
    reply: z.object({ digest: z.string(), isPossible: z.boolean() }),
    handle: async (_, { body }) => ({ digest: `of ${body.text}`, isPossible: body.text !== 'impossible' }),
  })
  const execute = operation({
    name: 'notes.execute',
    method: 'POST',
    path: '/execute',
    summary: 'Execute the plan',
    body: z.strictObject({ text: z.string(), digest: z.string() }),
    reply: z.object({ executed: z.string() }),
    command: {
      name: 'note:execute',
      options: { digest: { required: false } },
      plan: {
        operation: plan,
        request: ({ text }) => ({ text }),
        text: ({ digest }) => `plan ${digest}\n`,
        failure: ({ isPossible }) => (isPossible ? undefined : NotReady('It is not possible.')),
        body: ({ digest }, body) => ({ digest, ...body }),
      },
    },
    handle: async (_, { body: { digest } }) => ({ executed: digest }),
  })
  const run = async (options: Record<string, unknown>, terminal: Partial<Terminal> = {}) => {
    const { output, given } = input({ options })
    await only(execute).run({}, { ...given, terminal: { ...given.terminal, ...terminal } })
    return output
  }
  const NOTHING = ['say', 'nothing was changed; --yes executes the plan']

  test('prints the plan without --yes, and with --dry-run', async () => {
    expect(await run({ text: 'a' }, { isConfirmed: false })).toEqual([['write', 'plan of a\n'], NOTHING])
    expect(await run({ text: 'a', dryRun: true })).toEqual([['write', 'plan of a\n'], NOTHING])
    const json = await run({ text: 'a' }, { isConfirmed: false, isJson: true })
    expect(json).toEqual([['record', { digest: 'of a', isPossible: true }], NOTHING])
  })

  test('executes the printed plan with --yes, or the plan of an earlier digest', async () => {
    expect(await run({ text: 'a' })).toEqual([
      ['write', 'plan of a\n'],
      ['record', { executed: 'of a' }],
    ])
    expect(await run({ text: 'a', digest: 'earlier' }, { isJson: true })).toEqual([['record', { executed: 'earlier' }]])
  })

  test('executes no plan that is not possible', async () => {
    await expect(run({ text: 'impossible' })).rejects.toMatchObject({ code: 'E_NOT_READY' })
  })
})

describe('commandsOf', () => {
  test('derives name, summary and arguments', () => {
    expect(only(getNote)).toMatchObject({
      name: 'note:show',
      summary: 'Read a note',
      arguments: [
        { name: 'ownerId', summary: 'owner of the notes', required: true },
        { name: 'id', summary: '', required: true },
      ],
      options: [],
      needsWorker: false,
    })
  })

  test('derives options from types and descriptions of the body', () => {
    expect(only(createNote()).options).toMatchObject([
      { flags: '--text <text>', summary: 'the text of the note', required: true },
      { flags: '--size-bytes <size-bytes>' },
      { flags: '--is-pinned' },
      { flags: '--labels <labels...>', summary: 'URLs of it' },
      { flags: '--metadata <json>' },
    ])
  })

  test('derives options from the query, with the texts of paging', () => {
    expect(only(listNotes('note:list')).options).toMatchObject([
      { flags: '--is-pinned', summary: 'pinned ones only' },
      { flags: '--limit <count>', summary: 'maximum number (1 to 200)', default: 50 },
      { flags: '--cursor <cursor>' },
      { flags: '--all' },
    ])
  })

  test('applies the differences of a form: texts, names, order, members as arguments', () => {
    const form = {
      summary: 'Write a note',
      arguments: { ownerId: { name: 'owner', summary: 'its id' }, text: {} },
      options: { metadata: 'a JSON object', sizeBytes: { flags: '--size <bytes>', summary: 'of it' } },
    }
    expect(only(createNote(form))).toMatchObject({
      summary: 'Write a note',
      arguments: [
        { name: 'owner', summary: 'its id', required: true },
        { name: 'text', summary: 'the text of the note', required: true },
      ],
      options: [
        { flags: '--metadata <json>', summary: 'a JSON object' },
        { flags: '--size <bytes>' },
        { flags: '--is-pinned' },
        { flags: '--labels <labels...>' },
      ],
    })
  })

  test.each([
    ['--size-bytes', '2', 2],
    ['--size-bytes', '0', /1/],
    ['--size-bytes', '1e1', /"1e1" must be a number/],
    ['--metadata', '{"a":1}', { a: 1 }],
    ['--metadata', '{', /must be JSON/],
    ['--metadata', '[]', /record/],
  ])('parses the value of an option: %s %s', (flag, text, expected) => {
    const parse = only(createNote()).options?.find(({ flags }) => flags.startsWith(flag))?.parse ?? expect.fail(flag)
    if (expected instanceof RegExp) expect(() => parse(text)).toThrow(expected)
    else expect(parse(text)).toEqual(expected)
  })

  test('returns the commands with the given names, and rejects a name that no operation has', () => {
    const operations = [getNote, listNotes('note:list'), { ...getNote, command: undefined }]
    expect(commandsOf(operations).map(({ name }) => name)).toEqual(['note:show', 'note:list'])
    expect(commandsOf(operations, 'note:list').map(({ name }) => name)).toEqual(['note:list'])
    expect(() => commandsOf(operations, 'note:delete')).toThrow('no operation has the command "note:delete"')
  })
})

describe('a command in this process', () => {
  test('prints the reply as one record', async () => {
    const { given, output } = input({ args: { ownerId: 'o', id: 'b' } })
    await only(getNote).run(three(), given)
    expect(output).toEqual([['record', { id: 'b', text: 'note b', state: 'done' }]])
  })

  test('prints rows as a table, with the reply as its value, and names the next page', async () => {
    const { given, output } = input({ options: { limit: 2, isPinned: true } })
    await only(listNotes({ name: 'note:list', rows: ({ data }) => data.map(({ id }: Note) => ({ id })) })).run(
      three(),
      given,
    )
    expect(output).toEqual([
      ['table', [{ id: 'a' }, { id: 'b' }], { data: three().notes.slice(0, 2), nextCursor: '2' }],
      ['say', 'more: --cursor 2'],
    ])
  })

  test('with --all prints one page after the other, from the given cursor', async () => {
    const rows = ({ data }: { data: Note[] }) => data.map(({ id }) => ({ id }))
    const command = only(listNotes({ name: 'note:list', rows }))
    const [all, later, none] = [
      input({ options: { all: true } }),
      input({ options: { all: true, cursor: '2' } }),
      input(),
    ]
    await command.run(three(), all.given)
    await command.run(three(), later.given)
    await command.run({ notes: [] }, { ...none.given, options: { all: true } })
    const [a, b, c] = three().notes
    expect(all.output).toEqual([
      ['page', [{ id: 'a' }, { id: 'b' }], [a, b]],
      ['page', [{ id: 'c' }], [c]],
    ])
    expect(later.output).toEqual([['page', [{ id: 'c' }], [c]]])
    expect(none.output).toEqual([
      ['page', [], []],
      ['say', 'none'],
    ])
  })

  test('with --all reads a page only when the former one is printed, and stops at an interruption', async () => {
    const interruption = new AbortController()
    const { given, output } = input({ options: { all: true } })
    const terminal = { ...given.terminal, page: async () => interruption.abort(new Error('interrupted')) }
    const running = only(listNotes('note:list')).run(three(), { ...given, terminal, signal: interruption.signal })
    await expect(running).rejects.toThrow('interrupted')
    expect(output).toEqual([])
  })

  test('fails after it has printed a result with problems', async () => {
    const command = only(
      createNote({ failure: ({ state }) => (state === 'pending' ? NotReady('It is not.') : undefined) }),
    )
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    await expect(command.run({ notes: [] }, given)).rejects.toMatchObject({ code: 'E_NOT_READY' })
    expect(output.map(([kind]) => kind)).toEqual(['record'])
  })

  test('reads all pages, and prints their items', async () => {
    const command = only(listNotes({ name: 'note:list', readsAllPages: true }))
    expect(command.options?.map(({ flags }) => flags)).toEqual(['--is-pinned'])
    const { given, output } = input()
    await command.run(three(), given)
    expect(output).toEqual([['table', three().notes, three().notes]])
  })

  test('makes the body from arguments and options, and prints a message after the reply', async () => {
    const form = {
      arguments: { text: {} },
      options: { plan: 'written to metadata' },
      body: ({ plan, ...body }: Record<string, any>) => ({ ...body, metadata: { ...body.metadata, plan } }),
      message: ({ id }: Note) => `created ${id}`,
    }
    const { given, output } = input({ args: { ownerId: 'o', text: 'x' }, options: { plan: 'pro', metadata: { a: 1 } } })
    await only(createNote(form)).run({ notes: [] }, given)
    expect(output).toEqual([
      ['record', { id: 'new', text: '{"text":"x","metadata":{"a":1,"plan":"pro"}}', state: 'pending' }],
      ['say', 'created new'],
    ])
  })

  test('rejects input that the schema rejects, before the question', async () => {
    const { given, output } = input({ args: { ownerId: 'o' } })
    const command = only(createNote({ question: () => 'Create it?' }))
    await expect(command.run(three(), given)).rejects.toMatchObject({ extras: { errors: [{ path: 'text' }] } })
    expect(output).toEqual([])
  })

  test('names the argument whose text is not a value of its type', async () => {
    const { given } = input({ args: { ownerId: 'o', text: 'x', sizeBytes: 'two' } })
    await expect(
      only(createNote({ arguments: { text: {}, sizeBytes: {} } })).run(three(), given),
    ).rejects.toMatchObject({
      extras: { errors: [{ path: 'sizeBytes', message: '"two" must be a number of 0 or more' }] },
    })
  })

  test('asks for confirmation with the result of another operation, and calls only after yes', async () => {
    const form: Omit<CommandForm<Note>, 'name'> = {
      question: async ({ params: { ownerId } }, call) =>
        `Replace ${(await call(getNote, { params: { ownerId: ownerId ?? '', id: 'a' } })).text}?`,
      record: (_, { body }) => ({ given: body.text }),
    }
    const no = input({ args: { ownerId: 'o' }, options: { text: 'x' }, answer: false })
    const yes = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    const service = three()
    await only(createNote(form)).run(service, no.given)
    expect({ output: no.output, count: service.notes.length }).toEqual({
      output: [['confirm', 'Replace note a?']],
      count: 3,
    })
    await only(createNote(form)).run(service, yes.given)
    expect(yes.output.at(-1)).toEqual(['record', { given: 'x' }])
  })

  test('waits for the job, prints the result, and fails with its failure', async () => {
    const command = only(
      createNote({
        wait: {
          option: { flags: '--wait-for <seconds>', summary: 'wait for the job', default: 30 },
          isPending: ({ state }) => state === 'pending',
          progress: ({ id }) => `creating ${id}`,
          read: ({ id }, call) => call(getNote, { params: { ownerId: 'o', id } }),
          failure: ({ state }) => (state === 'failed' ? NotReady('The note failed.') : undefined),
        },
      }),
    )
    expect({ needsWorker: command.needsWorker, last: command.options?.at(-1)?.flags }).toEqual({
      needsWorker: true,
      last: '--wait-for <seconds>',
    })
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x', waitFor: 30 } })
    await expect(command.run({ notes: [] }, given)).rejects.toMatchObject({ code: 'E_NOT_READY' })
    expect(output).toEqual([
      ['progress', 'creating new'],
      ['record', { id: 'new', text: '', state: 'failed' }],
    ])
  })

  const transfer = (work: Waiting<Note>['work']): Waiting<Note> => ({
    option: { flags: '--detach', summary: 'only start it' },
    started: async ({ headers: { location = '' } }, call) =>
      call(getNote, { params: { ownerId: 'o', id: location.slice('/notes/'.length) } }),
    isPending: ({ state }) => state === 'pending',
    progress: ({ id }) => `creating ${id}`,
    read: ({ id }, call) => call(getNote, { params: { ownerId: 'o', id } }),
    result: async ({ state }) => ({ result: state }),
    failure: ({ state }) => (state === 'failed' ? NotReady('The note failed.') : undefined),
    work,
    interrupted: ({ id }) => `${id} continues`,
  })

  test('does the job in its process with `work`, and prints the result of its state', async () => {
    const work: Waiting<Note>['work'] = async ({ notes }: Notes, { id }, { show }) => {
      show({ id: `half of ${id}`, text: '', state: 'pending' })
      notes[0] = { id, text: '', state: 'done' }
    }
    const command = only(createNote({ wait: transfer(work) }))
    expect(command.needsWorker).toBe(false)
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    await command.run({ notes: [] }, given)
    expect(output).toEqual([
      ['progress', 'creating new'],
      ['progress', 'creating half of new'],
      ['record', { result: 'done' }],
    ])
  })

  test('does not wait with the switch of the wait', async () => {
    const command = only(createNote({ wait: transfer(() => expect.fail('the command is detached')) }))
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x', detach: true } })
    await command.run({ notes: [] }, given)
    expect(output).toEqual([['record', { result: 'pending' }]])
  })

  test('reports after an interruption that the job continues, and fails', async () => {
    const interruption = new AbortController()
    const work = async () => interruption.abort(new Error('interrupted'))
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    const running = only(createNote({ wait: transfer(work) })).run(
      { notes: [] },
      { ...given, signal: interruption.signal },
    )
    await expect(running).rejects.toThrow('interrupted')
    expect(output).toEqual([
      ['progress', 'creating new'],
      ['say', 'new continues'],
    ])
  })

  test('calls the other operation with the switch of `instead`', async () => {
    const remove = operation({
      name: 'notes.clear',
      method: 'DELETE',
      path: '/owners/{ownerId}/notes',
      summary: 'Delete the notes of an owner',
      params: z.object({ ownerId: z.string() }),
      reply: Note,
      handle: async (_, { params: { ownerId } }) => ({ id: ownerId, text: '', state: 'cleared' }),
    })
    const instead = { option: { flags: '--clear', summary: 'delete all' }, operation: remove }
    const command = only(createNote({ instead }))
    expect(command.options?.map(({ flags }) => flags)).toContain('--clear')
    const { given, output } = input({ args: { ownerId: 'o' }, options: { clear: true } })
    await command.run({ notes: [] }, given)
    expect(output).toEqual([['record', { id: 'o', text: '', state: 'cleared' }]])
  })

  test('shows the progress of an operation in its process', async () => {
    const counting: AnyOperation<Notes> = {
      ...getNote,
      command: { name: 'note:count', progress: 'notes counted' },
      handle: async (_, { onProgress }) => {
        onProgress?.(1, 1_000)
        return three().notes[0]
      },
    }
    const { given, output } = input({ args: { ownerId: 'o', id: 'a' } })
    await only(counting).run(three(), given)
    expect(output[0]).toEqual(['progress', '1 of 1,000 notes counted'])
  })

  test('reports a secret that the reply lacks, because it was shown before', async () => {
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    await only({ ...createNote(), shownOnce: ['secret', 'text'] }).run({ notes: [] }, given)
    expect(output.slice(1)).toEqual([
      ['say', 'The secret was in a lost response and is not shown again. Replace it, or create another.'],
    ])
  })

  test('asks nothing without a question', async () => {
    const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x' } })
    await only(createNote({ question: () => undefined })).run({ notes: [] }, given)
    expect(output.map(([kind]) => kind)).toEqual(['record'])
  })

  test('prints the items of a page as a table, and the parameters if there is no reply', async () => {
    const listed = input()
    await only(listNotes('note:list')).run(
      { notes: three().notes.slice(0, 1) },
      { ...listed.given, options: { limit: 5 } },
    )
    expect(listed.output[0]?.slice(0, 2)).toEqual(['table', three().notes.slice(0, 1)])
    const deleted = input({ args: { ownerId: 'o', id: 'a' } })
    await only({ ...getNote, reply: z.void(), handle: async () => undefined }).run(three(), deleted.given)
    expect(deleted.output).toEqual([['record', { ownerId: 'o', id: 'a' }]])
  })

  test('rejects a reply that its schema rejects', async () => {
    const faulty = { ...getNote, handle: async () => ({ id: 'a' }) }
    await expect(only(faulty).run(three(), input().given)).rejects.toThrow(z.ZodError)
  })

  test('rejects a stream as its reply', async () => {
    const streams = { ...getNote, handle: async () => new StreamReply('text/csv', 'notes', three().notes as any) }
    await expect(only(streams).run(three(), input().given)).rejects.toThrow('notes.get streams')
  })
})

test('a command runs with any caller: it needs the JSON of requests and replies only', async () => {
  const calls: [string, CallInput][] = []
  const caller: Caller = {
    call: async (operation, input) => {
      calls.push([operation.name, JSON.parse(JSON.stringify(input))])
      return new Reply(202, { id: 'remote', text: 'x', state: 'done' })
    },
    settle: async () => expect.fail('nothing is pending'),
  }
  const { given, output } = input({ args: { ownerId: 'o' }, options: { text: 'x', sizeBytes: 2 } })
  await only(createNote()).runWith(caller, given)
  expect(calls).toEqual([['notes.create', { params: { ownerId: 'o' }, query: {}, body: { text: 'x', sizeBytes: 2 } }]])
  expect(output).toEqual([['record', { id: 'remote', text: 'x', state: 'done' }]])
})
