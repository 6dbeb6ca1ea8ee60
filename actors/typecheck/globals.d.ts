// What a snippet finds besides JavaScript itself, and names that the run explains
// better than a type check can. any: nothing here is complained of.
declare const input: any;
declare const console: any;
declare const crypto: any;
declare const URL: any;
declare const URLSearchParams: any;
declare const TextEncoder: any;
declare const TextDecoder: any;
declare const DOMException: any;
declare function structuredClone<T>(value: T): T;
declare function setTimeout(f: any, ms?: any, ...args: any[]): any;
declare function clearTimeout(id?: any): void;
declare function queueMicrotask(f: any): void;
declare function atob(s: any): string;
declare function btoa(s: any): string;

declare const tools: any, functions: any, mcp: any;
declare const fetch: any, require: any, process: any, fs: any;
declare const XMLHttpRequest: any, WebSocket: any, axios: any, module: any, exports: any, Deno: any, Bun: any, window: any, document: any;
declare const Buffer: any, setInterval: any, setImmediate: any, clearInterval: any, clearImmediate: any, global: any, self: any;
// Type positions that agents write by habit.
declare namespace NodeJS { type Timeout = any; }
type URL = any;
type URLSearchParams = any;
