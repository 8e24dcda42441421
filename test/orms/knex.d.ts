declare module 'knex/lib/dialects/postgres/index.js' {
  const ClientPg: new (...given: any[]) => object
  export default ClientPg
}
