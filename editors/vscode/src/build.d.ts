declare const __RELEASES__: readonly string[];
declare const __MODELS__: readonly string[];
declare const __NAMES__: string;
declare const __WORDS__: string;
