/** A promise that starts its work when it is awaited, like those of Prisma and Knex. */
export const lazy = <T>(work: () => T): Promise<T> =>
  // biome-ignore lint/suspicious/noThenProperty: a thenable is what the tests need
  ({ then: (resolve: (value: T) => void) => resolve(work()) }) as unknown as Promise<T>
