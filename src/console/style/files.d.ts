/** Modules that the bundler resolves. */
declare module '*.css'
