/** A promise that begins its work when it is awaited, as those of Prisma and Knex do. */
export const lazy = <T>(work: () => T): Promise<T> =>
  // biome-ignore lint/suspicious/noThenProperty: a thenable is what the tests need
  ({ then: (resolve: (value: T) => void) => resolve(work()) }) as unknown as Promise<T>
