/** A satellite with one POST that fails or waits after its write, as a test decides; and so does `Prefer: wait`. */
import { z } from 'zod'
import { operation } from '../../src/kernel/api/operation.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { defineSatellite } from '../../src/tenancy/satellite.ts'

export class Notes {
  readonly #kernel: Kernel
  /** Errors of the next calls, one each, thrown after the note was written. */
  readonly faults: Error[] = []
  /** Errors of the next waits, one each. */
  readonly lostWaits: Error[] = []
  /** A call waits for this promise after its write. */
  gate: Promise<unknown> = Promise.resolve()
  /** The wait for the result of a call waits for this promise. */
  wait: Promise<unknown> = Promise.resolve()
  /** Number of calls that wait. */
  waiting = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async add(tenantId: string, text: string): Promise<{ tenantId: string; text: string }> {
    await this.#kernel.database.sql('insert into multitenancy.desk_notes (tenant_id, text) values ($1, $2)', [
      tenantId,
      text,
    ])
    this.waiting += 1
    await this.gate
    this.waiting -= 1
    const fault = this.faults.shift()
    if (fault) throw fault
    return { tenantId, text }
  }

  async settled<Note>(note: Note): Promise<Note> {
    await this.wait
    const fault = this.lostWaits.shift()
    if (fault) throw fault
    return note
  }

  async of(tenantId: string): Promise<string[]> {
    const { rows } = await this.#kernel.database.sql('select text from multitenancy.desk_notes where tenant_id = $1', [
      tenantId,
    ])
    return rows.map(({ text }) => text)
  }
}

export const notes = () =>
  defineSatellite({
    name: 'notes',
    summary: 'Notes',
    tables: [{ name: '0001_notes', up: 'create table desk_notes (tenant_id text not null, text text not null)' }],
    service: (kernel) => new Notes(kernel),
    operations: [
      operation({
        name: 'notes.add',
        method: 'POST',
        path: '/tenants/{id}/notes',
        summary: 'Add a note',
        params: z.object({ id: z.string() }),
        body: z.strictObject({ text: z.string() }),
        reply: z.object({ tenantId: z.string(), text: z.string() }),
        status: 201,
        handle: (service: Notes, { params, body }) => service.add(params.id, body.text),
        settled: (service: Notes, note) => service.settled(note),
      }),
    ],
  })
