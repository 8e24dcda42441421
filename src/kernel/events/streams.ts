/** Ordered streams of records. One part registers a stream, another part sends it in batches from a stored position. */

export interface Batch {
  /** Position of the last record. */
  readonly position: number
  readonly body: Readonly<Record<string, unknown>>
}

export interface Stream {
  /** Dotted name; also the name of the event that carries a batch. */
  readonly name: string
  /**
   * Reads the records after a position, in the order of positions. A record that commits later must have a higher position.
   * Undefined: none exists.
   * @param maxBytes of the body as JSON
   */
  after(position: number, maxBytes: number): Promise<Batch | undefined>
  /** Time of the first record after a position; null: none exists. */
  oldestAfter(position: number): Promise<Date | null>
}

export class Streams {
  readonly #byName = new Map<string, Stream>()

  register(stream: Stream): void {
    this.#byName.set(stream.name, stream)
  }

  get(name: string): Stream | undefined {
    return this.#byName.get(name)
  }

  get names(): string[] {
    return [...this.#byName.keys()]
  }
}
